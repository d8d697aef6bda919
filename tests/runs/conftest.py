import pytest

from fluxctl.config.load import resolve
from fluxctl.config.override import from_set
from fluxctl.runs.layout import create_run


@pytest.fixture
def make_run(tmp_path):
    """A new run directory, as ``launch`` makes it."""

    def make(*sets, **kwargs):
        return create_run(tmp_path / "runs", resolve([], [from_set(text) for text in sets]), **kwargs)

    return make

"""When the updates of a bin are good enough to commit."""

from fluxctl.policies.commits.variance import commit_reason

__all__ = ["commit_reason"]

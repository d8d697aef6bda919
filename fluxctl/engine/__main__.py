"""``python -m fluxctl.engine RUN_DIR``: what ``fluxctl launch`` starts for each run."""

import sys

from fluxctl.engine.session import main

sys.exit(main(sys.argv[1:]))

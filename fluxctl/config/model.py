"""What was asked for: the frozen, strict model of one run.

Units are part of the names. Every field's description is the comment that the saved ``config.yaml``, ``config schema``
and ``docs`` show, so that there is one text for each. Cross-field rules that need no data are checked here; rules that
need the data, the host or a trace belong to the gate.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from fluxctl.config.durations import parse_duration
from fluxctl.errors import ConfigError
from fluxctl.types import Mode

Names = Annotated[tuple[str, ...], Strict(False)]
Ints = Annotated[tuple[int, ...], Strict(False)]
ModeField = Annotated[Mode, Strict(False)]


def _seconds(value: Any) -> Any:  # noqa: ANN401 - whatever stood in the file; the field's own type judges it
    """Text as a duration (``2h``); anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except ConfigError as error:
        raise PydanticCustomError("duration", "{reason}", {"reason": str(error)}) from None


Seconds = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=float | str)]  # 3600, or "1h"


class Section(BaseModel):
    """Base of every section: frozen, strict types, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Choice(Section):
    """A policy by name, with its parameters; both are validated against the registry when the file is loaded."""

    name: str = Field(description="registered name")
    params: dict[str, Any] = Field(
        default_factory=dict, description="parameters of that policy; see `fluxctl config schema`"
    )


class ModelConfig(Section):
    """The language model and its trainable parts."""

    name: str = Field(
        "minilm", description="minilm (extra: demo), tiny (random weights), or a folder in Hugging Face layout"
    )
    max_len: int = Field(48, ge=4, le=512, description="tokens kept of each text, special tokens included")
    adapter_blocks: Ints = Field(
        (-1,),
        description=(
            "blocks with a bottleneck adapter on the feed-forward output; negative counts from the last; [] = none"
        ),
    )
    adapter_dim: int = Field(16, ge=1, description="bottleneck width r of each adapter")


class DataConfig(Section):
    """Texts and labels, and how a client cuts its share into bins."""

    source: str = Field("wordnet-gloss", description="wordnet-gloss (extra: demo) or synthetic (generated text)")
    classes: Names = Field(("artifact", "person", "act", "communication"), description="label names, at least two")
    train_per_class: int = Field(2000, ge=1, description="training texts of each class")
    test_per_class: int = Field(250, ge=1, description="test texts of each class")
    batch_size: int = Field(8, ge=1, description="samples of one mini-batch, which is one bin of a client")


class PartitionConfig(Section):
    """How training texts are dealt to clients."""

    method: Literal["dirichlet", "uniform"] = Field(
        "dirichlet", description="label skew: dirichlet (alpha x class prior) or none: uniform"
    )
    alpha: float = Field(1.0, gt=0, description="Dirichlet concentration; smaller = more skew")


class ClientsConfig(Section):
    """The population of clients."""

    num_clients: int = Field(100, ge=1, description="clients N that own a shard")
    min_clients: int | None = Field(
        None,
        ge=1,
        description="trainers that must have registered before the first selection; null = as many as may be in flight",
    )


class AvailabilityConfig(Section):
    """When clients can be reached and what the aggregator knows of it."""

    trace: str = Field(
        "syn_0",
        description="a shipped trace (syn_0 = always available), or a .yaml, .csv or .jsonl file",
    )
    knowledge: Literal["unaware", "oracular", "client_notify", "heartbeat"] = Field(
        "unaware", description="what the aggregator knows about availability"
    )
    num_states: Literal[2, 3] = Field(
        3, description="client_notify: 2 = a client that can only evaluate counts as unavailable; 3 = as it is"
    )
    notify_latency_s: Seconds = Field(0.0, ge=0, description="client_notify: how late a transition is known")
    heartbeat_every_s: Seconds = Field(30.0, gt=0, description="heartbeat: period of the pings of an available client")
    allowed_misses: int = Field(
        3, ge=1, description="heartbeat: alive while the last ping is younger than this many periods"
    )
    on_unavailable: Literal["continue", "pause", "abort"] = Field(
        "continue", description="compute of a client that goes away: goes on offline, pauses, or is lost"
    )
    evict: bool = Field(
        True, description="free a slot as soon as its update is due and its client is known to be unavailable"
    )
    on_lost: Literal["substitute", "shrink"] = Field(
        "substitute", description="sync: a member given up mid-cycle is replaced, or the cycle closes without it"
    )


class DelaysConfig(Section):
    """The modelled duration D of each client's task."""

    enabled: bool = Field(True, description="false = every task takes 1 ms of engine time")
    model: Literal["lognormal", "uniform", "constant", "pareto", "zipf", "registry"] = Field(
        "lognormal", description="distribution of D over clients"
    )
    pareto_shape: float = Field(1.5, gt=0, description="pareto: tail index; smaller = heavier tail")
    zipf_exponent: float = Field(1.5, gt=0, le=20, description="zipf: power by which higher ranks are rarer")
    registry: str | None = Field(None, description="registry: CSV file of client, duration_s")
    registry_assign: Literal["by_id", "draw"] = Field(
        "by_id", description="registry: each client its own line, or one of them by the client's stream"
    )
    straggler_spread_s: Seconds = Field(
        0.0, ge=0, description="largest fixed extra time of a client's messages, by a hash of the client; 0 = off"
    )
    factor: float = Field(1.0, gt=0, description="divides D; 2 = twice as fast")
    low_s: Seconds = Field(2.0, gt=0, description="smallest D in seconds (lognormal: clip, uniform: bound)")
    high_s: Seconds = Field(
        60.0, gt=0, description="largest D in seconds (lognormal: clip, uniform: bound, constant: the value)"
    )
    compute_frac: float = Field(0.7, ge=0, le=1, description="share of D that is compute; the rest is network")
    compute_model: Literal["constant", "per_pass"] = Field(
        "constant",
        description=(
            "constant = D as given; per_pass = compute share scaled by the step's forward passes over reference_passes"
        ),
    )
    reference_passes: int = Field(2, ge=1, description="forward passes of a step that D was measured for")

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.low_s > self.high_s:
            raise ValueError(f"low_s ({self.low_s:g}) must not exceed high_s ({self.high_s:g})")
        return self


class LinksConfig(Section):
    """Transfer times from the bytes of messages; the network share of D is left out when on."""

    model: Literal["off", "constant", "lognormal"] = Field(
        "off", description="off = D covers the network; constant = all links alike; lognormal = spread over clients"
    )
    down_bytes_per_s: float = Field(2_500_000.0, gt=0, description="to a client (lognormal: the median)")
    up_bytes_per_s: float = Field(750_000.0, gt=0, description="from a client (lognormal: the median)")
    log_sd: float = Field(0.8, ge=0, le=3, description="lognormal: standard deviation of the logarithm over clients")


class SelectionConfig(Section):
    """Who is asked to train."""

    policy: Choice = Field(Choice(name="random"), description="selector")
    per: Literal["bin", "iteration"] = Field(
        "iteration", description="sync: draw a cohort once per bin, or for each iteration within it"
    )


class StepConfig(Section):
    """What a client does with one mini-batch."""

    estimator: Literal["central_difference", "forward_difference", "jvp", "backprop", "local_sgd"] = Field(
        "central_difference",
        description="how a derivative is measured; or a control with back-propagation: one gradient, or local SGD",
    )
    local_lr: float = Field(0.01, gt=0, description="local_sgd: the client's learning rate")
    local_epochs: int = Field(1, ge=1, description="local_sgd: passes over the task's texts")
    local_batch_size: int = Field(8, ge=1, description="local_sgd: texts of a mini-batch")
    local_scope: Literal["bin", "shard"] = Field(
        "bin", description="local_sgd: a task's texts: the bin's mini-batch, or all that the client owns"
    )
    step_size: float = Field(0.01, gt=0, description="h of the finite difference")
    perturbation: Literal["random", "cosine_guided", "max_jvp", "average", "orthogonal"] = Field(
        "random", description="how the direction is chosen"
    )
    num_directions: int = Field(1, ge=1, description="P: directions evaluated per step (not random, cosine_guided)")
    num_candidates: int = Field(
        10, ge=1, description="cosine_guided: directions compared with the last aggregate, per tensor"
    )
    alternate: bool = Field(True, description="cosine_guided: guided and random bins alternate, starting with random")
    fast_path: bool = Field(
        True,
        description=(
            "skip passes that only feed logs and reuse the winner's value (jvp_perf_opt); never changes a result"
        ),
    )

    @model_validator(mode="after")
    def _directions(self) -> Self:
        if self.perturbation in ("random", "cosine_guided") and self.num_directions != 1:
            raise ValueError(
                f"perturbation '{self.perturbation}' evaluates one direction; num_directions must be 1, not "
                f"{self.num_directions}"
            )
        return self


class GateConfig(Section):
    """The variance gate: when a bin's updates are good enough to commit."""

    enabled: bool = Field(True, description="false = every cycle commits")
    var_threshold: float = Field(0.3, gt=0, description="commit when the split-half variance is at or under this")
    tracked_tensor: str = Field(
        "auto",
        description=(
            "tensor whose variance is judged: auto = first adapter down-projection, else all; all; or a tensor name"
        ),
    )
    stopping_policy: Literal["off", "fixed_cap", "plateau"] = Field("off", description="what else may end a bin")
    max_iterations_per_bin: int | None = Field(
        None, ge=1, description="cap on iterations of a bin; needed by fixed_cap, optional for plateau"
    )
    plateau_window: int = Field(3, ge=1, description="N: iterations over which the variance must still fall")
    plateau_min_drop: float = Field(
        0.15, gt=0, description="eps: relative drop over the window below which the bin is committed"
    )

    @model_validator(mode="after")
    def _cap(self) -> Self:
        if self.stopping_policy == "fixed_cap" and self.max_iterations_per_bin is None:
            raise ValueError("stopping_policy 'fixed_cap' needs max_iterations_per_bin, for example 20")
        return self


class AggregationConfig(Section):
    """How updates become a new model version."""

    style: Literal["sync", "async"] = Field("sync", description="sync = barrier per cycle; async = K of C in flight")
    refill: Literal["immediate", "staggered"] = Field(
        "immediate", description="freed slots are refilled at once, or one after another"
    )
    stagger_s: Seconds = Field(1.0, gt=0, description="staggered: seconds between the starts of one refill")
    goal: int = Field(10, ge=1, description="aggregation goal K: updates per cycle")
    concurrency: int = Field(10, ge=1, description="concurrency C: most clients in flight")
    control: Choice = Field(Choice(name="off"), description="moves goal and concurrency while the run goes on")
    rate: Choice = Field(Choice(name="fedavg"), description="weight of each update in the aggregate")
    staleness: Choice = Field(Choice(name="exact"), description="which late updates count, and how")

    @model_validator(mode="after")
    def _goal_fits(self) -> Self:
        if self.goal > self.concurrency:
            raise ValueError(
                f"goal ({self.goal}) must not exceed concurrency ({self.concurrency}): the goal could never be "
                "reached; lower goal or raise concurrency"
            )
        return self


class ServerConfig(Section):
    """The server's step on the aggregate."""

    optimizer: Literal["sgd", "momentum", "adam", "adagrad", "yogi"] = Field("sgd", description="server optimizer")
    lr: float = Field(0.01, gt=0, description="learning rate eta")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum: decay of the velocity")
    beta1: float = Field(0.9, ge=0, lt=1, description="adam, yogi: decay of the mean")
    beta2: float = Field(0.99, ge=0, lt=1, description="adam, yogi: decay of the mean square")
    eps: float = Field(1e-3, gt=0, description="adam, adagrad, yogi: added to the root of the mean square")
    clip_norm: float | None = Field(None, gt=0, description="longest aggregate; a longer one is cut to it; null = off")
    schedule: Literal["constant", "linear"] = Field(
        "constant", description="learning rate over bins: constant, or up over the warm-up and then down to 0"
    )
    warmup_ratio: float = Field(0.0, ge=0, lt=1, description="linear: share of limits.max_bins that the warm-up takes")
    on_divergence: Literal["stop", "rollback"] = Field(
        "stop", description="stop = end DIVERGED; rollback = go on from the best model so far, with a smaller step"
    )
    max_rollbacks: int = Field(3, ge=1, description="rollback: after this many of them, end DIVERGED")
    rollback_lr_factor: float = Field(0.5, gt=0, le=1, description="rollback: factor of the learning rate each time")


class MessagesConfig(Section):
    """What travels."""

    suppress_redundant_weights: bool = Field(
        True,
        description="at most one full payload per client and model version; later iterations send a keep-going message",
    )
    weights: Literal["full", "delta"] = Field(
        "full", description="to a client: all weights, or what differs from the version that it has, exactly"
    )
    update: Literal["gradient", "seed_scalar"] = Field(
        "gradient", description="from a client: the vector, or its directions' seed and derivatives, to be rebuilt"
    )

    @model_validator(mode="after")
    def _deltas_replace_full_payloads(self) -> Self:
        if self.weights == "delta" and not self.suppress_redundant_weights:
            raise ValueError(
                "weights 'delta' needs suppress_redundant_weights: a client would be sent the difference to what it has"
            )
        return self


class LimitsConfig(Section):
    """When a run stops."""

    max_bins: int | None = Field(None, ge=1, description="stop after this many committed bins")
    max_rounds: int | None = Field(None, ge=1, description="stop after this many passes over all bins")
    max_runtime_s: Seconds | None = Field(
        None, gt=0, description="budget on the engine's clock; null = 48 h with a target, else 10 min"
    )
    max_wall_s: Seconds | None = Field(
        None,
        gt=0,
        description=(
            "budget on the wall, enforced by the supervisor; null = 20 x the engine budget for measured compute, "
            "else 1 x, at least 10 min"
        ),
    )
    target_accuracy: float | None = Field(None, gt=0, le=1, description="test accuracy to hold")
    converge_window: int = Field(20, ge=1, description="bins in a row at or above the target that mean CONVERGED")
    divergence_guard: bool = Field(
        True, description="end DIVERGED on non-finite or exploding loss, or a collapse to one class"
    )
    stall_window_s: Seconds | None = Field(
        None, gt=0, description="engine seconds without progress that mean STALLED; null = off"
    )
    stall_on: Literal["acc", "loss", "either"] = Field(
        "either", description="what counts as progress: accuracy, loss, or either of them"
    )
    stall_min_delta: float = Field(
        0.01, gt=0, le=1, description="acc: absolute gain on the best accuracy that counts as progress"
    )
    loss_min_rel_delta: float = Field(
        0.01, gt=0, lt=1, description="loss: relative drop below the lowest loss that counts as progress"
    )


class TrainerErrorPolicy(StrEnum):
    """What the engine does when a trainer raises."""

    FAIL = "fail"
    DROP = "drop"
    RETRY = "retry"


class EngineConfig(Section):
    """How the engine works; nothing here changes what is learned, except where it says so."""

    charge_compute: Literal["modelled", "measured"] = Field(
        "modelled", description="modelled: due = dispatch + D; measured: dispatch + max(compute, D), not reproducible"
    )
    charge_evaluation: Literal["off", "modelled", "measured"] = Field(
        "off",
        description="engine time of a commit's evaluation: none; evaluation_s; or what it took, not reproducible",
    )
    evaluation_s: Seconds = Field(1.0, ge=0, description="charge_evaluation modelled: engine seconds of an evaluation")
    commit_order: Literal["logical", "arrival"] = Field(
        "logical", description="logical: by due time on both clocks; arrival: as the clock delivered"
    )
    reorder_slack_s: Seconds | None = Field(
        None, gt=0, description="wall clock: longest wait for a logically earlier update; null = abandon_after_s"
    )
    abandon_after_s: Seconds = Field(
        90.0, gt=0, description="silence after which a client is given up, on the engine's clock"
    )
    on_trainer_error: Annotated[TrainerErrorPolicy, Strict(False)] = Field(
        TrainerErrorPolicy.FAIL,
        description=(
            "fail = end the run; drop = go on without the client; retry = dispatch it again, at most "
            "trainer_retries times"
        ),
    )
    trainer_retries: int = Field(
        1, ge=0, description="retries of one client before the run fails (on_trainer_error: retry)"
    )
    num_workers: int | None = Field(
        None,
        ge=0,
        description="compute threads; null = one per core less one, none for steps under 1 ms; 0 = none, no lookahead",
    )
    wall_factor: float = Field(1.0, gt=0, description="engine seconds per wall second in real mode")
    register_timeout_s: Seconds = Field(30.0, gt=0, description="wall seconds to wait for trainers to register")
    fault_client: int | None = Field(None, ge=0, description="testing: this client raises instead of training")


class TelemetryConfig(Section):
    """What a run measures besides; nothing here changes what happens, nor a run's hash."""

    step_memory: bool = Field(
        True, description="count the peak bytes of a client's step once, forward gradient and back-propagation"
    )
    step_timing: bool = Field(False, description="note how long single functions took, in wall.jsonl (step_timing)")


class Config(Section):
    """One run: everything that decides what happens, and nothing else."""

    run_set: str = Field("adhoc", description="run set that this run belongs to")
    baseline: str = Field("custom", description="system under test")
    variant: str = Field("", description="which of its run set's variants; empty = it has none")
    mode: ModeField = Field(Mode.SIM, description="real = wall clock, sim = virtual clock")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of every keyed stream")
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    partition: PartitionConfig = PartitionConfig()
    clients: ClientsConfig = ClientsConfig()
    availability: AvailabilityConfig = AvailabilityConfig()
    delays: DelaysConfig = DelaysConfig()
    links: LinksConfig = LinksConfig()
    selection: SelectionConfig = SelectionConfig()
    step: StepConfig = StepConfig()
    gate: GateConfig = GateConfig()
    aggregation: AggregationConfig = AggregationConfig()
    server: ServerConfig = ServerConfig()
    messages: MessagesConfig = MessagesConfig()
    limits: LimitsConfig = LimitsConfig()
    engine: EngineConfig = EngineConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @model_validator(mode="after")
    def _population(self) -> Self:
        num = self.clients.num_clients
        if self.aggregation.concurrency > num:
            raise ValueError(
                f"aggregation.concurrency ({self.aggregation.concurrency}) must not exceed clients.num_clients ({num})"
            )
        if self.clients.min_clients is not None and self.clients.min_clients > num:
            raise ValueError(
                f"clients.min_clients ({self.clients.min_clients}) must not exceed clients.num_clients ({num})"
            )
        if len(self.data.classes) < 2:
            raise ValueError("data.classes needs at least two labels")
        return self

    @model_validator(mode="after")
    def _rollback_needs_the_guard(self) -> Self:
        if self.server.on_divergence == "rollback" and not self.limits.divergence_guard:
            raise ValueError(
                "server.on_divergence 'rollback' needs limits.divergence_guard: without it nobody notices a divergence"
            )
        return self

    @model_validator(mode="after")
    def _messages_fit_the_step(self) -> Self:
        is_guided = self.step.perturbation == "cosine_guided"
        if self.messages.weights == "delta" and is_guided:
            raise ValueError(
                "messages.weights 'delta' does not carry the last aggregate, which step.perturbation 'cosine_guided' "
                "needs; send full weights, or choose another perturbation"
            )
        if self.messages.update == "seed_scalar" and self.step.estimator in ("backprop", "local_sgd"):
            raise ValueError(
                f"messages.update 'seed_scalar' describes a forward gradient, and step.estimator is "
                f"'{self.step.estimator}'; send the gradient"
            )
        if self.messages.update == "seed_scalar" and is_guided:
            raise ValueError(
                "messages.update 'seed_scalar' cannot describe a direction that step.perturbation 'cosine_guided' puts "
                "together; choose random, max_jvp, average or orthogonal, or send the gradient"
            )
        return self

    @property
    def label(self) -> str:
        """The baseline's name, with the variant of the run set if it has some."""
        return f"{self.baseline} {self.variant}".rstrip()

    def runtime_budget_s(self) -> float:
        """Engine-clock budget in seconds, with the default resolved."""
        if self.limits.max_runtime_s is not None:
            return self.limits.max_runtime_s
        return 48 * 3600.0 if self.limits.target_accuracy is not None else 600.0

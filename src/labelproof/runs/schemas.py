"""What the files of a run folder must hold for the code that reads them; one record a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Count = Annotated[int, Meta(ge=0, le=2**40)]
Share = Annotated[float, Meta(ge=0, le=1)]
Names = Annotated[list[str], Meta(min_length=1, max_length=10**6)]
Finite = Annotated[float, Meta(ge=-1e15, le=1e15)]
Number = Finite | None  # what is not finite is written as null
BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class TaskRecord(Struct):
    """run.json: the task."""

    digest: str
    size: Annotated[int, Meta(ge=1, le=2**40)]
    kind: Literal["images", "vectors"]
    shape: Annotated[list[Annotated[int, Meta(ge=1, le=2**24)]], Meta(min_length=1, max_length=4)]
    classes: Names


class ChosenRecord(Struct):
    """run.json: one setting that was left open, once it is chosen."""

    value: Any
    why: str
    trials: Any


class SourceRecord(Struct):
    """run.json: where data came from. The seal covers it as it was written: nothing is put in."""

    source: str | UnsetType = UNSET
    path: str | UnsetType | None = UNSET
    labels: str | UnsetType | None = UNSET
    label_key: str | UnsetType = UNSET
    columns: dict[str, str] | UnsetType = UNSET
    unreadable: list[dict[str, str]] | UnsetType | None = UNSET
    unlabelled: list[Count] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class NoiseRecord(Struct):
    """run.json: noise that was put in on purpose."""

    kind: str
    realised: Share
    rate: float | UnsetType | None = UNSET


class HeldRecord(Struct):
    """run.json: labels that were held fixed."""

    run: str
    count: Count
    removed: list[Count] | UnsetType = UNSET


class AnyRecord(Struct):
    """run.json where only its spec is of use; a spec checks itself."""

    spec: dict[str, Any]
    data: dict[str, Any] | None = None


class RunRecord(Struct):
    """run.json."""

    format: int
    method: str
    settings: dict[str, Any]
    net: str
    task: TaskRecord
    differs: str = ""
    seed: int = 0
    labelproof: str = ""
    started: str = ""
    device: str = ""
    threads: Annotated[int, Meta(ge=1, le=1024)] | None = None
    processes: Annotated[int, Meta(ge=1, le=2**20)] | None = None
    seal: str | None = None
    spec: dict[str, Any] | UnsetType = UNSET
    chosen: dict[str, ChosenRecord] | None = None
    data: SourceRecord | None = None
    test: SourceRecord | None = None
    noise: NoiseRecord | None = None
    reviewed: HeldRecord | None = None
    views: dict[str, Any] = {}
    command: list[str] = []
    versions: dict[str, str] | None = None


class AccuracyRecord(Struct):
    """summary.json: accuracy on test data."""

    last: Share
    last10: Share
    best: Share


class DetectionRecord(Struct):
    """summary.json: suspects against the true labels."""

    precision: float | None = None
    recall: float | None = None


class TrustRecord(Struct):
    """summary.json: how far to rely on what is said of the labels."""

    level: Literal["good", "caution", "none"]
    reasons: list[str] = []
    model_error: Share | None = None
    ambiguous: bool = False
    hidden: bool = False
    misled: Share = 0.0
    seen: bool = False


class PointRecord(Struct):
    """summary.json: expected precision of the first so many labels."""

    suspects: Annotated[int, Meta(ge=1, le=10**12)]
    precision: Share
    low: Share
    high: Share


class ClassRecord(Struct):
    """summary.json: what is said of one class."""

    name: str
    judged: bool
    reason: str = ""
    given: Count = 0
    suspects: Count = 0


class PersonRecord(Struct):
    """summary.json: one annotator."""

    annotator: str
    labels: Count
    quality: Share
    low: Share | None
    high: Share | None
    agreement: Number


class ConfusedRecord(Struct):
    """summary.json: what one annotator takes for something else."""

    annotator: str
    true: str
    said: str
    times: Finite
    share: Share


class AnnotatorsRecord(Struct):
    """summary.json: several annotators."""

    count: Count
    votes: Count
    votes_per_example: Finite
    alpha: Number
    alpha_interval: tuple[Finite, Finite] | None
    worth_of_a_vote: Finite
    changed: Count
    given_differs: Count
    accuracy_majority: Share | None
    accuracy_consensus: Share | None
    worst: list[PersonRecord]
    confused: list[ConfusedRecord]


class JoinedRecord(Struct):
    """summary.json: what predicts along with the network."""

    why: str
    linear_share: Share = 0.0
    forest_share: Share = 0.0
    fold_networks: Count = 0


class SummaryRecord(Struct):
    """summary.json."""

    noise_rate_estimate: Share | None
    suspects: Count = 0
    suspects_filled: Count = 0
    accuracy: AccuracyRecord | None = None
    joined: JoinedRecord | None = None
    ece: Number = None
    ece_calibrated: Number = None
    error_auroc: Number = None
    error_ap: Number = None
    suspect_detection: DetectionRecord | None = None
    suspect_precision_estimate: Number = None
    suspect_precision_interval: tuple[Share, Share] | None = None
    noise_rate_interval: tuple[Share, Share] | None = None
    precision_curve: list[PointRecord] = []
    trust: TrustRecord | None = None
    by_class: list[ClassRecord] = []
    annotators: AnnotatorsRecord | None = None
    balanced_accuracy: Number = None
    noise_rate_true: Number = None
    seconds: Finite = 0.0
    seconds_calibration: Finite = 0.0
    calibration: str = ""
    doubts: list[str] = []
    chosen: dict[str, Any] | None = None


class EpochRecord(Struct):
    """metrics.jsonl: one line."""

    epoch: Annotated[int, Meta(ge=1, le=10**9)]
    phase: str = ""
    loss: Number = None
    test_accuracy: Number = None
    test_ece: Number = None
    error_auroc: Number = None
    selected: Number = None
    elapsed: Number = None


class BesideRecord(Struct):
    """review.json."""

    index: list[Count]
    likeliest: list[list[tuple[Count, Share]]]
    similar: list[list[Count]]


class PictureRecord(Struct):
    """health.json: a small picture."""

    data: Annotated[str, Meta(pattern=BASE64, max_length=2**20)]
    kind: Literal["image/png", "image/jpeg"]
    width: Annotated[int, Meta(ge=1, le=2**12)]
    height: Annotated[int, Meta(ge=1, le=2**12)]


class TestedRecord(Struct):
    """health.json: a test example."""

    label: str = ""
    text: str | None = None
    picture: PictureRecord | None = None


class EntryRecord(Struct):
    """health.json: one example or class."""

    score: Finite
    index: Count | None = None
    other: Any = None
    label: str = ""
    examples: list[Count] = []  # of a class
    test: TestedRecord | None = None  # the test example beside it


class FindingRecord(Struct):
    """health.json: one kind of problem."""

    kind: str
    title: str
    advice: str
    of: str
    count: Count
    size: Count
    share: Share
    low: Share
    high: Share
    whole: Count | UnsetType = UNSET  # entries there are; runs of old do not say
    entries: list[EntryRecord] = []


class GroupRecord(Struct):
    """health.json: the labels of one group."""

    name: str
    size: Count
    wrong: Share | None
    low: Share
    high: Share
    suspects: Count
    unusual: Finite
    accuracy: Share | None = None
    classes: list[Share] = []


class HealthRecord(Struct):
    """health.json."""

    findings: list[FindingRecord]
    groups: list[GroupRecord] = []
    compared: Count = 0  # examples, at random, that were compared with each other


class CrowdRecord(Struct):
    """annotators.json."""

    annotators: list[str]
    confusion: list[list[list[Share]]]


class PartnerRecord(Struct):
    """calibration.json: how much a regression and a forest add to the network's scores."""

    network: Annotated[float, Meta(ge=-1e15, le=1e15)]
    linear: Annotated[float, Meta(ge=-1e15, le=1e15)]
    trees: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0


class LinkRecord(Struct):
    """calibration.json: the link."""

    of: Literal["logits", "log-probabilities"]
    scale: Annotated[float, Meta(gt=0, le=1e15)]
    partner: PartnerRecord | None = None


class CalibrationRecord(Struct):
    """calibration.json."""

    link: LinkRecord


class ManifestRecord(Struct):
    """files.json."""

    sha256: dict[str, str]

"""The name of every file and folder in a run folder."""

RUN = "run.json"  # the spec of the run, and facts about it
METRICS = "metrics.jsonl"  # a line an epoch
CHECKPOINT = "checkpoint.pt"  # where to go on
LABELS = "labels.csv"  # every label, the most suspicious first
SUMMARY = "summary.json"
MODEL = "model.safetensors"
CALIBRATION = "calibration.json"
READING = "reading.json"  # what new data must look like
ENCODER = "encoder.json"
ENCODER_ARRAYS = "encoder.safetensors"
MANIFEST = "files.json"  # a hash of every file of the model
REPORT = "report.html"
BESIDE = "review.json"  # likeliest classes and similar examples, for the review page
MEASURED = "report.json"  # what the report needs and only the end of a run knows
SCORES = "scores.npy"  # what the review needs to judge labels again after decisions
ANNOTATORS = "annotators.csv"  # how good every annotator is
VOTES = "votes.csv"  # every single vote, the least likely first
CROWD = "annotators.json"  # annotators' confusion matrices
UNREADABLE = "unreadable.csv"  # files that could not be read
HELD = "reviewed.csv"  # labels that a person had confirmed before the run
DECISIONS = "decisions.jsonl"  # what a person decided about the labels since
REFIT_LOG = "fit-again.log"  # what a fit started from the review page printed
TENSORBOARD = "tensorboard"  # curves, where asked for
TRIALS = "trials"  # while settings are chosen
FOLDS = "calibration"  # while the method is trained again on parts of the data

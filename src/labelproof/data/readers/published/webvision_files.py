"""Mini-WebVision (Li et al. 2017; first 50 classes, Google subset) and the ILSVRC12 validation set.

WebVision is published as lists of "file label" lines in `info/` beside the images; labels are
places in `info/synsets.txt`. The ILSVRC12 validation images lie in a folder per synset, or flat
with the `LOC_val_solution.csv` that names the synset of each; either way the synsets of WebVision
give the labels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labelproof.data.examples import Examples
from labelproof.data.readers.file_names import FileBlobs, is_image, printable, walk
from labelproof.data.readers.image_folder import check_files, labelled_images
from labelproof.data.readers.published.locate import Published, data_dir, find, locate
from labelproof.data.readers.reading_options import Reading, SourceOptions, Told
from labelproof.data.readers.streamed import StreamedImages
from labelproof.errors import BadInput

CLASSES = 50
EDGE = 320  # the shorter edge before cropping to 299
CROPPED_FROM = 96  # from this edge on, views are crops and see whole pictures
NORMALISE = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
TRAIN, VAL, SYNSETS = "train_filelist_google.txt", "val_filelist.txt", "synsets.txt"
WEBVISION = Published(
    title="WebVision 1.0",
    home="https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html",
    archive="the resized Google images, the validation images and the information archive",
    folder="webvision",
    files=(f"info/{TRAIN}", f"info/{VAL}", f"info/{SYNSETS}"),
    others=("",),
)
VAL_FOLDERS = ("val_images_256", "val_images", "val")
ILSVRC_HOME = "https://image-net.org/challenges/LSVRC/2012"
ILSVRC_FOLDERS = ("imagenet/val", "ilsvrc12/val", "imagenet", "ilsvrc12", "val")
SOLUTION = "LOC_val_solution.csv"


def load_webvision(how: Reading) -> Examples:
    """Training images of 50 classes with labels from the web, and WebVision's validation set.

    Random crops see whole training pictures. Everything else sees their centre squares.
    """
    _, paths = locate(data_dir(how.options), (WEBVISION,))
    info = paths[f"info/{TRAIN}"].parent
    root = info.parent
    names = [name for _, name in read_synsets(info / SYNSETS)[:CLASSES]]
    options = _sized(how.options)
    margins = (options.image_size or 0) >= CROPPED_FROM
    files, labels = read_list(info / TRAIN)
    # pictures on canvases would fill a cache four times as large, so they are not kept
    reading = replace(options, cache=None, memory_gb=0.0) if margins else options
    told = Told(given=labels, names=names, what=f"the labels of {TRAIN}")
    train = _images(root, files, told, replace(how, options=reading), info / TRAIN)
    if margins and isinstance(train.x, StreamedImages):
        train.x.margins = True
    folder = next((root / name for name in VAL_FOLDERS if (root / name).is_dir()), None)
    if folder is None:
        raise BadInput(
            f"expected the WebVision validation images in {root / VAL_FOLDERS[0]}, but there is no "
            f"such folder; fetch them from {WEBVISION.home} and unpack them there"
        )
    files, labels = read_list(info / VAL)
    told = Told(given=labels, names=names, what=f"the labels of {VAL}")
    test = _images(folder, files, told, replace(how, options=options, like=train), info / VAL)
    return replace(train, test=test)


def load_ilsvrc12(how: Reading) -> Examples:
    """The 2,500 ILSVRC12 validation images of the same 50 classes."""
    _, paths = locate(data_dir(how.options), (WEBVISION,))
    synsets = read_synsets(paths[f"info/{SYNSETS}"])[:CLASSES]
    place = {wnid: code for code, (wnid, _) in enumerate(synsets)}
    root, found = _ilsvrc_files(data_dir(how.options))
    chosen = [(name, place[wnid]) for name, wnid in found if wnid in place]
    names = [name for _, name in synsets]
    told = Told(
        given=[names[code] for _, code in chosen],  # whatever the order of classes in training
        names=names,
        what=f"the labels of {root.name}",
    )
    files = [name for name, _ in chosen]
    return _images(root, files, told, replace(how, options=_sized(how.options)), root)


def read_list(path: Path) -> tuple[list[str], list[int]]:
    """Files and labels of the first 50 classes, in the order of a published list."""
    files, labels = [], []
    for number, line in enumerate(_lines(path), 1):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdigit():
            raise BadInput(
                f"expected a file and a class number in every line of {path.name}, but line "
                f"{number} is {printable(line[:60])!r}; fetch the published list again"
            )
        if int(label) < CLASSES:
            files.append(name.strip())
            labels.append(int(label))
    return files, labels


def read_synsets(path: Path) -> list[tuple[str, str]]:
    """WordNet id and first name of every class, in the order of the labels; names are distinct."""
    pairs = [
        (line.split()[0], line.partition(" ")[2].split(",")[0].strip()) for line in _lines(path)
    ]
    if len(pairs) < CLASSES:
        raise BadInput(
            f"expected at least {CLASSES} classes in {path.name}, but {len(pairs)} are listed; "
            "fetch the published file again"
        )
    names = [name for _, name in pairs]
    return [
        (wnid, name if name and names.count(name) == 1 else f"{name} ({wnid})")
        for wnid, name in pairs
    ]


def _ilsvrc_files(root: Path) -> tuple[Path, list[tuple[str, str]]]:
    """The folder of validation images, and (file, WordNet id) of each."""
    for name in ILSVRC_FOLDERS:
        folder = root / name
        if not folder.is_dir():
            continue
        files = [file for file in walk(folder) if is_image(file)]
        inside = [(file, file.split("/", 1)[0]) for file in files if "/" in file]
        if inside and all(wnid[0] == "n" and wnid[1:].isdigit() for _, wnid in inside):
            return folder, inside
        table = find(folder, SOLUTION) or find(folder.parent, SOLUTION)
        if files and table is not None:
            return folder, _by_solution(files, table)
    raise BadInput(
        f"expected the ILSVRC12 validation images in {root / ILSVRC_FOLDERS[0]}, in a folder per "
        f"synset (n01440764, ...) or flat with {SOLUTION}, but they are not there; "
        f"fetch them from {ILSVRC_HOME} and put them there"
    )


def _by_solution(files: list[str], table: Path) -> list[tuple[str, str]]:
    synset = {}
    for line in _lines(table)[1:]:
        image, _, answer = line.partition(",")
        synset[image] = answer.split(" ")[0]
    stems = ((file, Path(file).stem) for file in files)
    return [(file, synset[stem]) for file, stem in stems if stem in synset]


def _images(root: Path, files: list[str], told: Told, how: Reading, listed: Path) -> Examples:
    blobs = FileBlobs(str(root), check_files(root, files, listed))
    about = {"source": "webvision", "path": str(root)}
    return replace(labelled_images(blobs, told, how, about), normalise=NORMALISE)


def _sized(options: SourceOptions) -> SourceOptions:
    return options if options.image_size is not None else replace(options, image_size=EDGE)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise BadInput(f"expected to read {path}, but {error.strerror or error}") from None
    return [line for line in text.splitlines() if line.strip()]

"""A model of texts for use elsewhere: a folder with tokenizer and ONNX file.

The ONNX file takes what the tokenizer gives and returns calibrated probabilities (B, C):
`counts` (B, V), how often each term occurs, for TF-IDF; `input_ids` and `attention_mask` (B, T) for
a transformer; all three where both stand side by side.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from labelproof.data.encoders.module_graph import graph_bytes
from labelproof.data.encoders.texts import (
    LONGEST,
    AnyTexts,
    JoinedTexts,
    TextEncoder,
    TransformerEncoder,
    load_transformer,
    shortened,
    term_counter,
    term_settings,
)
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput
from labelproof.files import folder_written_whole, write_json
from labelproof.runs.export import Whole, check_close
from labelproof.runs.model import Model

CLOSE = 1e-3  # how far the exported folder may be from `predict`
NETWORK, TERMS, TOKENIZER, ABOUT = "model.onnx", "terms.json", "tokenizer.json", "about.json"
SAMPLES = ("", "a short text", "quite another text, with more words in it than the others have")
USE = """# A text classifier exported by labelproof

```python
{code}
print(dict(zip(json.load(open("about.json"))["classes"], probabilities[0])))
```
"""
COUNT = f"""counter = CountVectorizer(**json.load(open("terms.json")))
counts = counter.transform([text[:{LONGEST}] for text in texts])
inputs["counts"] = counts.toarray().astype("float32")"""
TOKENS = """tokenizer = Tokenizer.from_file("tokenizer.json")
tokens = tokenizer.encode_batch(texts)
inputs["input_ids"] = np.array([t.ids for t in tokens])
inputs["attention_mask"] = np.array([t.attention_mask for t in tokens])"""


class FromTexts(nn.Module):
    """From counts of terms, from tokens, or from both to probabilities: an encoder and a model."""

    idf: Tensor
    components: Tensor

    def __init__(
        self, words: TextEncoder | None, network: nn.Module | None, whole: nn.Module
    ) -> None:
        super().__init__()
        self.counts, self.network, self.whole = words is not None, network, whole
        if words is not None:
            self.register_buffer("idf", torch.from_numpy(words.idf).float())
            self.register_buffer("components", torch.from_numpy(words.components).float().T)

    def forward(
        self, first: Tensor, second: Tensor | None = None, third: Tensor | None = None
    ) -> Tensor:
        """Counts (B, V), where terms are counted, then tokens and mask (B, T), to (B, C)."""
        given = [each for each in (first, second, third) if each is not None]
        vectors = self._of_terms(given.pop(0)) if self.counts else None
        if self.network is not None:
            tokens = self._of_tokens(*given)
            vectors = tokens if vectors is None else torch.cat([vectors, tokens], 1)
            vectors = vectors.half().float()  # rounded as they were in training
        out: Tensor = self.whole(vectors)
        return out

    def _of_terms(self, counts: Tensor) -> Tensor:
        """`TextEncoder.transform` from counts of terms on."""
        weights = torch.where(counts > 0, 1 + counts.clamp_min(1).log(), 0.0) * self.idf
        return normalize(normalize(weights) @ self.components)

    def _of_tokens(self, ids: Tensor, mask: Tensor) -> Tensor:
        """`TransformerEncoder.transform` from tokens on."""
        assert self.network is not None
        hidden = self.network(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask[..., None].to(hidden.dtype)
        return normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1))


def export_texts(model: Model, encoder: AnyTexts, out: Path) -> None:
    """Write a folder that turns texts into probabilities; it is checked before it appears.

    Raises:
        BadInput: a package is missing, or the folder exists or cannot be written.
        RunFailed: the exported model differs from the original.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        need(package, "export", "the export to ONNX")
    if out.exists() or not out.absolute().parent.is_dir():
        problem = "exists already" if out.exists() else "cannot be made: its parent is missing"
        raise BadInput(f"{out} {problem}; name another --out.")
    with folder_written_whole(out) as aside:
        _write(model, encoder, aside)
        _check(model, encoder, aside)
        aside.chmod(0o755)


def _write(model: Model, encoder: AnyTexts, folder: Path) -> None:
    """Tokenizer, network and what to know of them."""
    words, part = _parts(encoder)
    network = None
    if words is not None:
        write_json(folder / TERMS, term_settings(words))
    if part is not None:
        tokenizer, network = load_transformer(part)
        _save_tokenizer(tokenizer, part, folder / TOKENIZER)
    joined = FromTexts(words, network, Whole(model).cpu()).eval()
    (folder / NETWORK).write_bytes(_converted(joined, inputs_of(folder, SAMPLES)))
    used = [
        code for name, code in ((TERMS, COUNT), (TOKENIZER, TOKENS)) if (folder / name).exists()
    ]
    write_json(
        folder / ABOUT, {"classes": list(model.classes), "inputs": list(inputs_of(folder, ["a"]))}
    )
    (folder / "README.md").write_text(USE.format(code=_code(used)), encoding="utf-8")


def _parts(encoder: AnyTexts) -> tuple[TextEncoder | None, TransformerEncoder | None]:
    """What counts terms and what reads sentences, where there is one."""
    if isinstance(encoder, JoinedTexts):
        return encoder.words, encoder.sentences
    return (encoder, None) if isinstance(encoder, TextEncoder) else (None, encoder)


def _save_tokenizer(tokenizer: Any, encoder: TransformerEncoder, path: Path) -> None:
    """The tokenizer as a file of the library `tokenizers`, with cutting and padding inside."""
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(max_length=encoder.length)
    backend.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
    backend.save(str(path))


def _code(parts: Sequence[str]) -> str:
    """Python that uses the folder."""
    imports = ["import json", "", "import numpy as np", "import onnxruntime"]
    if COUNT in parts:
        imports.append("from sklearn.feature_extraction.text import CountVectorizer")
    if TOKENS in parts:
        imports.append("from tokenizers import Tokenizer")
    last = 'probabilities = onnxruntime.InferenceSession("model.onnx").run(None, inputs)[0]'
    return "\n".join([*imports, "", 'texts, inputs = ["a text"], {}', *parts, last])


def inputs_of(folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    """What the ONNX file of an exported folder takes, for some texts."""
    found: dict[str, Any] = {}
    if (folder / TERMS).exists():
        settings = json.loads((folder / TERMS).read_text(encoding="utf-8"))
        counts = term_counter(settings).transform(shortened(texts)).toarray()
        found["counts"] = counts.astype(np.float32)
    if (folder / TOKENIZER).exists():
        tokenizers = need("tokenizers", "text", "the tokenizer of an exported model")
        tokens = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER)).encode_batch(list(texts))
        found["input_ids"] = np.array([one.ids for one in tokens], dtype=np.int64)
        found["attention_mask"] = np.array([one.attention_mask for one in tokens], dtype=np.int64)
    return found


def _converted(module: nn.Module, inputs: dict[str, Any]) -> bytes:
    """The module as the bytes of an ONNX model for texts of any number and length."""
    examples = {name: torch.from_numpy(values) for name, values in inputs.items()}
    return graph_bytes(module, examples, "probabilities", inputs.keys() - {"counts"})


def _check(model: Model, encoder: AnyTexts, folder: Path) -> None:
    """Compare the folder with `predict` on a few texts, alone and together."""
    runtime = need("onnxruntime", "export", "the check of the exported model")
    session = runtime.InferenceSession(
        (folder / NETWORK).read_bytes(), providers=["CPUExecutionProvider"]
    )
    half = not isinstance(encoder, TextEncoder)
    for texts in (SAMPLES, SAMPLES[1:2]):
        (there,) = session.run(["probabilities"], inputs_of(folder, texts))
        vectors = torch.from_numpy(np.asarray(encoder.transform(texts)))
        with torch.no_grad():
            here = Whole(model).cpu().eval()(vectors.half().float() if half else vectors)
        check_close(there, here, CLOSE)

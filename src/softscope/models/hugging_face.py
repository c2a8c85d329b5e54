"""Hugging Face classifiers by name, folder or object, with their image processor or tokenizer."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import first_line
from ..head import Head
from ..images import Preprocessing
from ..torch_door import nn
from .opened import Layer
from .torch import TorchModel

# PIL's numbers of its filters, as preprocessor_config.json has them.
_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
_KINDS = ("ForImageClassification", "ForSequenceClassification", "ForAudioClassification")


class HuggingFaceModel(TorchModel):
    """A transformers model; images go through its processor's numbers, texts through its tokenizer."""

    def __init__(
        self, module: nn.Module, name: str | None = None, processor: Any = None, device: str | None = None
    ) -> None:
        self._tokenizer = processor if _is_tokenizer(processor) else None
        own = None if self._tokenizer is not None or processor is None else preprocessing_of(processor)
        super().__init__(module, name, preprocessing=own, classes=_labels(module), device=device)
        self._input_name = str(getattr(module, "main_input_name", "pixel_values"))

    def prepare(self, probe: Any, layer: Layer = "after") -> Head:
        return super().prepare(self._named(probe), layer)

    def read(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        return super().read(self._named(inputs))

    def _named(self, inputs: Any) -> Any:
        """Inputs by name: texts tokenized, a bare array as the model's main input."""
        if isinstance(inputs, Mapping):
            return dict(inputs)
        if isinstance(inputs, list) and inputs and isinstance(inputs[0], str):
            if self._tokenizer is None:
                raise SoftscopeError(f"{self.name}: texts need its tokenizer", "Pass it: processor=tokenizer")
            if self._tokenizer.pad_token is None:
                self._tokenizer.pad_token = self._tokenizer.eos_token
                config: Any = self.module.config
                config.pad_token_id = self._tokenizer.pad_token_id
            return dict(self._tokenizer(inputs, padding=True, truncation=True, return_tensors="pt"))
        if self._input_name == "input_ids" and getattr(inputs, "ndim", 2) > 2:
            raise SoftscopeError(
                f"{self.name}: reads texts, not images", "Use Python: sx.extract(model, texts, processor=tokenizer)"
            )
        return {self._input_name: inputs} if not isinstance(inputs, tuple) else inputs


def open_hugging_face(name: str, processor: Any = None, device: str | None = None) -> HuggingFaceModel:
    """A classifier by its name on the hub or its folder, with the processor or tokenizer beside it.

    Weights are read from safetensors only, and no code of the repository is run.
    """
    transformers = _transformers()
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        kind = next((each for each in config.architectures or () if str(each).endswith(_KINDS)), None)
        if kind is None:
            raise SoftscopeError(
                f"{name}: is a {', '.join(config.architectures or ['model without architecture'])}, not a classifier",
                "Give a model for image, sequence or audio classification",
            )
        module = getattr(transformers, kind).from_pretrained(name, config=config, use_safetensors=True)
    except SoftscopeError:
        raise
    except Exception as error:  # transformers raises errors of many types, HTTP's among them
        raise SoftscopeError(
            f"{name}: can't be opened as a Hugging Face classifier ({first_line(error)[:200]})",
            "Give a folder that model.save_pretrained(folder) wrote, or a name on the hub",
        ) from error
    return HuggingFaceModel(module.eval(), name, processor or _own_processor(name, kind), device)


def is_hugging_face(model: Any) -> bool:
    """Whether an object is a transformers model, without importing transformers."""
    return any(base.__module__.startswith("transformers.") for base in type(model).__mro__)


def preprocessing_of(processor: Any) -> Preprocessing:
    """The numbers of an image processor (preprocessor_config.json) as a Preprocessing."""

    def own(name: str, default: Any = None) -> Any:
        return getattr(processor, name, default)

    size = _sides(own("size"))
    crop = _sides(own("crop_size")) if own("do_center_crop") else None
    share = float(own("crop_pct") or 1.0)
    if crop is not None and size is not None:
        share = min(1.0, crop[0] / size[0])
    mean, std = (own("image_mean"), own("image_std")) if own("do_normalize", True) else (None, None)
    factor = own("rescale_factor") if own("do_rescale", True) else 1.0
    return Preprocessing(
        size=crop or size,
        channels=len(mean) if isinstance(mean, Sequence) and len(mean) in (1, 3) else 3,
        mean=tuple(mean) if mean is not None else (0.0,),
        std=tuple(std) if std is not None else (1.0,),
        scale=float(factor or 1 / 255),
        crop=share,
        interpolation=_filter(own("resample")),
        squash="shortest_edge" not in _as_dict(own("size")) and crop is None and share == 1.0,
        bgr=bool(own("do_flip_channel_order")),
        source=type(processor).__name__,
    )


def _sides(size: Any) -> tuple[int, int] | None:
    given = _as_dict(size)
    if "height" in given and "width" in given:
        return int(given["height"]), int(given["width"])
    edge = given.get("shortest_edge")
    return (int(edge), int(edge)) if edge else None


def _as_dict(size: Any) -> dict[str, Any]:
    if isinstance(size, int):
        return {"height": size, "width": size}
    sides = size if isinstance(size, Mapping) else getattr(size, "__dict__", {})
    return {key: sides[key] for key in ("height", "width", "shortest_edge") if sides.get(key)}


def _filter(resample: Any) -> str:
    number = getattr(resample, "value", resample)
    return str(number).lower() if isinstance(number, str) else _FILTERS.get(number, "bilinear")


def _labels(module: nn.Module) -> tuple[str, ...] | None:
    """`id2label` of the config, unless it holds only the numbers that transformers makes up."""
    names = getattr(getattr(module, "config", None), "id2label", None)
    if not isinstance(names, Mapping) or not names:
        return None
    listed = [str(names[key]) for key in sorted(names, key=int)]
    made_up = all(name == f"LABEL_{number}" for number, name in enumerate(listed))
    return None if made_up else tuple(listed)


def _is_tokenizer(processor: Any) -> bool:
    return processor is not None and hasattr(processor, "pad_token") and callable(processor)


def _own_processor(name: str, kind: str) -> Any:
    if kind.endswith("ForAudioClassification"):
        return None
    reads_images = kind.endswith("ForImageClassification")
    loader = "AutoImageProcessor" if reads_images else "AutoTokenizer"
    try:
        return getattr(_transformers(), loader).from_pretrained(name, trust_remote_code=False)
    except Exception:  # a folder without one is used with flags, or with tensors
        return None


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise SoftscopeError("transformers is not installed", "pip install 'softscope[hf]'") from error
    return transformers

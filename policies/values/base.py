"""Types that all parts of the policy model share: strict models, names, secrets, lists that may be one value."""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_plain_validator_function

T = TypeVar("T")
SECTION: Final = "section"
"""Where pydantic's schema of a section says for a section within it which class that is."""


class Strict(BaseModel):
    """A model that rejects unknown keys, and whose values never change.

    Its validator is built when it is first called (`defer_build`), and does not contain those of the sections within
    it, but calls them: a file has few of the forty kinds of sections.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        if handler.field_name is None:
            return handler(source)
        return no_info_plain_validator_function(cls.model_validate, metadata={SECTION: cls})


class SectionSchema(GenerateJsonSchema):
    """JSON Schema of models, with the sections within a section."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """See `GenerateJsonSchema`."""
        if (section := schema.get("metadata", {}).get(SECTION)) is not None:
            section.model_rebuild()
            schema = section.__pydantic_core_schema__
        return super().generate_inner(schema)

    def field_title_should_be_set(self, schema: object) -> bool:
        """See `GenerateJsonSchema`: a section has a title of its own."""
        known = cast(CoreSchema, schema)
        return SECTION not in known.get("metadata", {}) and super().field_title_should_be_set(known)


class StrictSection(Strict):
    """A section that may be empty (`core:`); it then has all its defaults."""

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, value: object) -> object:
        return {} if value is None else value


class Secret(Strict):
    """Where a secret is found; never the secret itself."""

    env: str | None = Field(default=None, min_length=1, description="name of an environment variable with the secret")
    file: str | None = Field(default=None, min_length=1, description="file with the secret; path relative to the "
        "policy file")

    @model_validator(mode="before")
    @classmethod
    def _never_inline(cls, value: object) -> object:
        if isinstance(value, str | int | float):
            raise ValueError("a secret is never written into the policy; use {env: NAME} or {file: path}")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> "Secret":
        if (self.env is None) == (self.file is None):
            raise ValueError("needs exactly one of env and file")
        return self

    @property
    def reference(self) -> "Secret":
        """The plain reference, to look the value up by."""
        return Secret(env=self.env, file=self.file)

    @property
    def place(self) -> str:
        """For messages: where the secret should be."""
        return f"environment variable {self.env}" if self.env else f"file {self.file}"


def parsed(parse: Callable[[object], object], text: str, description: str) -> Any:
    """A field whose default is given as in the file, so that the published schema shows it in that form.

    Limits belong to the type, after its parser; arguments of the field would be checked before the parser runs.
    The result is `Any`, as that of `pydantic.Field`: a value of the field's type is expected there.
    """
    extra: JsonSchemaValue = {"default": text}
    return Field(default_factory=lambda: parse(text), description=description, json_schema_extra=extra)


class Parser:
    """The parser of a value, and the form of its text for the JSON Schema.

    Like pydantic's `PlainValidator` with `WithJsonSchema`, which would also generate the schema of the value's type at
    each use, to serialize it: a third of the time that all sections take.
    """

    def __init__(self, parse: Callable[[object], object], form: JsonSchemaValue) -> None:
        self._parse = parse
        self._form = form

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(self._parse)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return self._form.copy()


class Also:
    """Adds other accepted forms to the JSON Schema; `forms` makes them from the schema of the usual form."""

    def __init__(self, forms: Callable[[JsonSchemaValue], list[JsonSchemaValue]]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        usual = handler(core)
        return {"anyOf": [*self._forms(usual), usual]}


def upper(value: object) -> object:
    """Text in capitals, for names that may be written in any case; other values are returned unchanged."""
    return value.upper() if isinstance(value, str) else value


def setting_text(value: object) -> object:
    """A number or boolean as text, for settings of librdkafka and Spark; other values are returned unchanged."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _as_list(value: object) -> object:
    return value if value is None or isinstance(value, list | tuple) else [value]


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Path = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Flag = StrictBool
Count = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]
OneOrMany = Annotated[tuple[T, ...], BeforeValidator(_as_list), Also(lambda schema: [schema["items"]])]

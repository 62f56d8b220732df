"""The JSON Schema of spec files, for editors that complete and check YAML while it is written."""

import json
from typing import Any


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file.

    Examples
    --------
    >>> json_schema()["required"]
    ['release', 'data', 'dimensions']
    """
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

    from congenial.spec.model import SpecFile

    class WithoutNull(GenerateJsonSchema):
        """A key that may be left out is not one that may be null."""

        def nullable_schema(self, schema: Any) -> JsonSchemaValue:
            return self.generate_inner(schema["schema"])

        def default_schema(self, schema: Any) -> JsonSchemaValue:
            inner = super().default_schema(schema)
            if inner.get("default", "") is None:
                del inner["default"]
            return inner

    generated = SpecFile.model_json_schema(by_alias=True, schema_generator=WithoutNull)
    return {"$schema": GenerateJsonSchema.schema_dialect, **generated, "title": "congenial spec"}


def json_schema_text() -> str:
    """Return the schema as it is published in ``docs/spec.schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"

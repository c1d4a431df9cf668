"""The HTTP reference in Markdown, made from the OpenAPI document of the service."""

from typing import Any

Schema = dict[str, Any]


def http_reference() -> str:
    """Return the page: every route with its parameters, bodies and responses, then every schema."""
    from mihash.service import Service, create_app

    document = create_app(Service(lambda: None, token="0" * 32)).openapi()
    parts = ["# HTTP", document["info"]["description"], "The service describes itself at `/openapi.json` and `/docs`."]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += [f"## {method.upper()} {path}", *_operation(operation)]
    parts.append("## Bodies")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}", schema.get("description", ""), _fields(schema)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _operation(operation: Schema) -> list[str]:
    token = "Needs the token, if the service has one." if operation.get("security") else ""
    parts = [operation.get("description") or operation.get("summary", ""), token]
    if parameters := [each for each in operation.get("parameters", ()) if each["in"] != "cookie"]:
        rows = [
            (f"`{each['name']}`", each["in"], _type(each.get("schema", {})), each.get("description", ""))
            for each in parameters
        ]
        parts.append(_table(("parameter", "in", "type", ""), rows))
    if body := operation.get("requestBody", {}).get("content"):
        rows = [(f"`{kind}`", _type(content.get("schema", {}))) for kind, content in body.items()]
        parts.append(_table(("body", "type"), rows))
    rows = []
    for status, response in operation["responses"].items():
        kinds = [_type(content.get("schema", {})) for content in response.get("content", {}).values()]
        rows.append((status, ", ".join(kinds), response["description"]))
    parts.append(_table(("status", "response", ""), rows))
    return parts


def _fields(schema: Schema) -> str:
    required = schema.get("required", ())
    rows = [
        (f"`{name}`", _type(field), "yes" if name in required else "", field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "required", ""), rows) if rows else _type(schema)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value!r}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if schema.get("format") == "binary":
        return "bytes"
    return str(schema.get("type", "any"))


def _table(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [names, tuple("---" for _ in names), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines)

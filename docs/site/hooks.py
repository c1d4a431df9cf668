"""Pages of the site that are not written by hand, for mkdocs.

The API reference is made from the public names, the HTTP reference from OpenAPI. CONTRIBUTING.md and its like are shown
from where they are. A page that the navigation does not name is added to the guides.
"""

import importlib
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import mihash

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
}
BESIDE = {  # public modules that `mihash` itself does not import
    "sklearn": "mihash.sklearn",
    "client": "mihash.service.client",
    "frames": "mihash.io.adapters.frames",
    "faiss_vectors": "mihash.io.adapters.faiss_vectors",
    "lance_tables": "mihash.io.adapters.lance_tables",
    "kafka_topic": "mihash.io.adapters.kafka_topic",
}


def public_modules() -> dict[str, str]:
    """Return the public modules: the last part of the name, and the name."""
    names = {name: getattr(mihash, name) for name in mihash.__all__}
    found = {name: value.__name__ for name, value in names.items() if inspect.ismodule(value)}
    return dict(sorted((found | BESIDE).items()))


def public_names(module: str) -> list[str]:
    """Return what a module lists in `__all__`, else the classes and functions that it defines, without modules."""
    found = importlib.import_module(module)
    listed = getattr(found, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(found).items() if _is_public(name, value, module)]
    return [name for name in listed if not (name.startswith("__") or inspect.ismodule(getattr(found, name)))]


def _is_public(name: str, value: Any, module: str) -> bool:
    is_code = inspect.isclass(value) or inspect.isroutine(value)
    return not name.startswith("_") and is_code and getattr(value, "__module__", None) == module


def _entry(module: str, name: str) -> str:
    """Return the lines that have a name documented, with the name by which users import it as the heading."""
    value = getattr(importlib.import_module(module), name)
    home = getattr(value, "__module__", None) or module
    is_code = home.startswith("mihash") and hasattr(value, "__qualname__")
    inherited = "\n      inherited_members: true" if module == "mihash" else ""
    return f"::: {home if is_code else module}.{name}\n    options:\n      heading: {module}.{name}{inherited}"


def api_page(module: str) -> str:
    """Return the page of a public module."""
    entries = "\n\n".join(_entry(module, name) for name in public_names(module))
    first = (importlib.import_module(module).__doc__ or "").partition("\n\n")[0]
    return f"# {module}\n\n{' '.join(first.split())}\n\n{entries}\n"


def api_pages() -> dict[str, str]:
    """Return the pages of the API by the place that they have."""
    pages = {"reference/mihash.md": api_page("mihash")}
    return pages | {f"reference/{name}.md": api_page(module) for name, module in public_modules().items()}


def http_page() -> str:
    """Return the HTTP reference, made from what the service says about itself."""
    return str(runpy.run_path(str(Path(__file__).with_name("http_reference.py")))["http_reference"]())


def on_config(config: Any) -> Any:
    """Complete the navigation: the API, HTTP, and what no line names."""
    sections = {name: pages for part in config.nav for name, pages in part.items()}
    names = [{"mihash": "reference/mihash.md"}]
    names += [{module: f"reference/{name}.md"} for name, module in public_modules().items()]
    sections["Reference"][:0] = [{"API": names}, {"HTTP": "http.md"}]
    sections["Architecture"] += [
        {"Contributing": "contributing.md"},
        {"Code of conduct": "conduct.md"},
        {"Security": "security.md"},
        {"Changelog": "changelog.md"},
    ]
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    folder = Path(config.docs_dir)
    pages = sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.md"))
    sections["Guides"] += [page for page in pages if page not in named]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the made pages; `start.md` is the first page of the site, and `index.md` a page about the index."""
    from mkdocs.structure.files import File

    for path, content in {**api_pages(), "http.md": http_page()}.items():
        files.append(File.generated(config, path, content=content))
    for path, source in OUTSIDE.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text(encoding="utf-8")))
    for path, place in (("index.md", "the-index.html"), ("start.md", "index.html")):
        file = files.get_file_from_path(path)
        file.dest_uri = place
        file.__dict__.pop("url", None)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Let links between the repository's files lead to the pages that show them, or to the repository."""
    outside = page.file.src_uri in OUTSIDE
    page_of = {source: path for path, source in OUTSIDE.items()}

    def link(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        if outside and path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{anchor})"
        name = path if outside else path.removeprefix("../")
        if (not outside and name == path) or not (ROOT / name).exists():
            return found[0]
        return f"]({page_of.get(name) or f'{config.repo_url}/blob/main/{name}'}{anchor})"

    return re.sub(r"\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)", link, markdown)

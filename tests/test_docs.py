"""What README.md and docs/ show is there, and would be committed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img[^>]*\ssrc=[\"']([^\"']+)")


def images():
    """Return every picture that a page links, but for those of other sites, with the page."""
    found = []
    for page in PAGES:
        links = [markdown or html for markdown, html in LINK.findall(page.read_text(encoding="utf-8"))]
        found += [(page, page.parent / link) for link in links if "://" not in link]
    return found


def test_linked_images_exist():
    assert any(page.name == "results.md" for page, _ in images())
    assert [f"{page.name}: {image}" for page, image in images() if not image.is_file()] == []


def test_linked_images_are_not_ignored():
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("there is no git, or no repository")
    paths = sorted({str(image.resolve().relative_to(ROOT.resolve())) for _, image in images()})
    ignored = subprocess.run(
        [git, "check-ignore", "--no-index", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ignored.returncode, ignored.stdout) == (1, ""), ignored.stderr

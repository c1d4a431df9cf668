import numpy as np

from mihash import OnlineIndex


def test_images_to_an_index(mihash, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(6):
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 20), dtype=np.uint8)).save(file)
    out = tmp_path / "photos.npz"
    made = mihash("features", tmp_path / "photos", out, "--size", "16")
    assert made.code == 0, made.err
    assert "holds 6 images of 512 features." in made.out
    again = mihash("features", tmp_path / "photos", out, "--size", "16", "--components", "4")
    assert "holds 6 images of 4 features; 6 of them were computed before." in again.out
    (tmp_path / "photos" / "a" / "7.png").write_text("no image")
    broken = mihash("features", tmp_path / "photos", out, "--size", "16")
    assert broken.code != 0
    assert "a/7.png cannot be read as an image" in broken.err
    skipped = mihash("features", tmp_path / "photos", out, "--size", "16", "--skip-unreadable")
    assert "Left out, because they are not images: a/7.png" in skipped.out
    assert mihash("features", tmp_path / "photos", out, "--components", "40").code != 0
    index = tmp_path / "index"
    assert mihash("create", index, "--bits", "16").code == 0
    assert mihash("add", index, out, "--label", "labels").code == 0
    with OnlineIndex.open(index) as opened:
        assert sorted(opened.keys()) == ["a/0.png", "a/2.png", "a/4.png", "b/1.png", "b/3.png", "b/5.png"]

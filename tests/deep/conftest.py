"""Deep hashing is tested where torch is installed (the extra `deep`)."""

import pytest

pytest.importorskip("torch", reason="the deep room needs torch: pip install 'mihash[deep]'")

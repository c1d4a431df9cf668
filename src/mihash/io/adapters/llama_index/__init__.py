"""An index as a vector store of LlamaIndex; ``pip install 'mihash[llama-index]'``."""

try:
    import llama_index.core  # noqa: F401 -- to see whether it is there
except ImportError:
    raise ImportError("This adapter needs LlamaIndex: pip install 'mihash[llama-index]'.") from None

from .llama_store import LlamaVectorStore
from .metadata_filters import where_of

__all__ = ["LlamaVectorStore", "where_of"]

"""An index as a vector store of LangChain; ``pip install 'mihash[langchain]'``."""

try:
    import langchain_core  # noqa: F401 -- to see whether it is there
except ImportError:
    raise ImportError("This adapter needs LangChain: pip install 'mihash[langchain]'.") from None

from .langchain_store import MIHashVectorStore

__all__ = ["MIHashVectorStore"]

"""An index inside other libraries: LangChain, LlamaIndex, data frames, LanceDB, FAISS, Kafka (docs/adapters.md).

Nothing here is imported by ``import mihash``; each adapter needs the extra of its library.
"""

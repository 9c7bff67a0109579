# scikit-learn is needed only to train the example again, so the type checker does without it.
from typing import Any

def __getattr__(name: str) -> Any: ...

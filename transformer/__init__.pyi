from transformer.tools.api.loading import config as config
from transformer.tools.api.loading import load as load
from transformer.tools.api.training import train as train

__version__: str

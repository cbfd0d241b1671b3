"""Network definition: networks, tensors, layers, control flow, and their synchronization with the C graph."""

from .network import INetworkDefinition
from .tensor import ITensor

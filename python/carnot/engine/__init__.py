"""Building and running engines: builder, configuration, engines, contexts, runtime, refit, timing cache."""

from .builder import Builder
from .config import IBuilderConfig, IOptimizationProfile, IRuntimeConfig
from .context import IExecutionContext
from .engine import EngineInspector, ICudaEngine, ISerializationConfig
from .refit import Refitter
from .runtime import Runtime
from .timing_cache import ITimingCache, TimingCacheKey, TimingCacheValue

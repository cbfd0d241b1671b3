"""All cases of single operators."""

import op_cases_complex  # noqa: F401
import op_cases_layers  # noqa: F401
import op_cases_movement  # noqa: F401
import op_cases_pointwise  # noqa: F401
import op_cases_rank_2  # noqa: F401
import op_cases_rank_3  # noqa: F401
from op_case import CASES  # noqa: F401

from tests.integration.operator_act.conftest import hand, scripts, space

__all__ = ["hand", "scripts", "space"]

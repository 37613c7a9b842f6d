"""Gradients checked from Python: `check`, `assert_gradients` and the plugin for pytest.

`gradcheck_cli.check` and `gradcheck_cli.assert_gradients` are those of `testing.api`.
"""

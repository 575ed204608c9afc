"""Policy files: model, loading, checks, compiled rules, explanations. Pure."""

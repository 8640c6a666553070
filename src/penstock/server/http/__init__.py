"""HTTP API in RabbitMQ's form, on the broker's own event loop; docs/http.md lists its paths.

Imported only when enabled: starlette and uvicorn load more slowly than the broker.
"""

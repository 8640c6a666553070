"""HTTP API in RabbitMQ's form, on the broker's own event loop; docs/http.md lists its paths.

Imported with the first connection: starlette and uvicorn load more slowly than the broker.
"""

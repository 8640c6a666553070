"""The HTTP API in RabbitMQ's shape, in the broker's own event loop; docs/http.md says what it has and has not.

Imported only where it is asked for: starlette and uvicorn take longer to import than the broker does.
"""

"""--mode=serve: translates over HTTP, and on a page.

Read serve.py (the mode; its keys are in serve_keys.py), served.py (a model, and the page of a
sentence, with form.html and form.css), application.py (the endpoints; their JSON is in schema.py,
limits of a body and metrics in guard.py) and batching.py (batches across requests).
"""

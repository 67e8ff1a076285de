# Not built by us yet. docker build -t transformer [--build-arg JAX="jax[cuda13]"] .      (docs/running.md)
FROM python:3.12-slim
ARG JAX=jax
WORKDIR /transformer
COPY requirements.txt ./
RUN pip install --no-cache-dir "$JAX" gcsfs fastapi uvicorn prometheus-client -r requirements.txt
COPY launch.py ./
COPY configs configs
COPY transformer transformer
ENTRYPOINT ["python", "launch.py"]

# The testbed in a container: docs/how-to/containers.md says how to run it, and what it needs of the host.
ARG BASE=debian:12
FROM ${BASE}
WORKDIR /opt/cbcb-testbed
COPY . .
RUN ./run.sh setup && apt-get clean && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["./run.sh"]
CMD []

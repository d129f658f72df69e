# Leveret's image: one binary on a base without a shell, run by a user without rights on a root file system that it
# never writes to.
#
#   docker build --tag leveret .
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=0.1.0 --tag REGISTRY/leveret:0.1.0 --push .
#
# Each platform is built on itself: on a builder of its own, or emulated. Podman and Buildah keep HEALTHCHECK only with
# `--format docker`. `docker stop` kills after 10 s, less than `shutdown.grace`: give it `--time 30`.

# Both have Debian 12's C library. A build that must come out the same again names them by digest.
ARG BASE_BUILD=docker.io/library/rust:1-bookworm
ARG BASE_RUNTIME=gcr.io/distroless/cc-debian12:nonroot

FROM ${BASE_BUILD} AS build
WORKDIR /src
# The dependencies by themselves, for an empty program: this layer is kept until one of them changes.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src examples/compare benches/micro tests/it tests/torture \
    && touch src/lib.rs \
    && for program in src examples/compare benches/micro tests/it tests/torture; do echo 'fn main() {}' >"$program/main.rs"; done \
    && cargo build --locked --release --bin leveret
COPY src src
# Cargo goes by times, and those of the sources may be older than the empty program's.
RUN touch src/lib.rs src/main.rs \
    && cargo build --locked --release --bin leveret
COPY scripts/sbom scripts/
RUN scripts/sbom >sbom.cdx.json

FROM ${BASE_RUNTIME}
ARG VERSION=dev
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="Leveret" \
      org.opencontainers.image.description="Delayed messages for any stock RabbitMQ" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build /src/target/release/leveret /usr/local/bin/leveret
COPY --from=build /src/sbom.cdx.json /usr/share/doc/leveret/
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 9690
HEALTHCHECK --interval=10s --timeout=6s --start-period=15s CMD ["/usr/local/bin/leveret", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/leveret"]
CMD ["run"]

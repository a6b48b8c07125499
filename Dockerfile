# docker build -t bowline . && docker run --rm -v "$PWD/runs:/runs" bowline next /runs/cookie "the man who"
FROM rust:1.89-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /bowline
COPY . .
RUN cargo build --release --locked --package bowline-cli

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /bowline/target/release/bowline /usr/local/bin/bowline
USER nobody
WORKDIR /runs
EXPOSE 8080
ENTRYPOINT ["bowline"]

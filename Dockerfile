# The image: one static binary, nothing else. `docker build -t eclusa:0.1.0 .`
#
# Where no base image can be had, `make image` builds the binary on the machine itself and puts it
# through the second stage below; scripts/image replaces the first stage and nothing more.

# rust:1.95-slim-bookworm; pin it by digest where your registry gives you one.
FROM rust:1.95-slim-bookworm AS rootfs
WORKDIR /src
COPY . .
RUN scripts/rootfs "$(scripts/static)" /rootfs

FROM scratch
LABEL org.opencontainers.image.title="eclusa" \
      org.opencontainers.image.description="Egress-control forward proxy with its own DNS server" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      eclusa.role="proxy"
# The binary is root's, so that the user it runs as cannot replace it; that user owns the two
# folders it writes to. A read-only root works: mount a volume over the first, a tmpfs over the
# second.
COPY --from=rootfs /rootfs/root/ /
COPY --from=rootfs --chown=65532:65532 /rootfs/log/ /var/log/
COPY --from=rootfs --chown=65532:65532 /rootfs/run/ /run/
USER 65532:65532
# 3128 forward proxy, 53 DNS, 443 and 80 transparent. As a user without capabilities it can bind
# the ports below 1024 under --sysctl net.ipv4.ip_unprivileged_port_start=0, a container's default
# from engine 20.10.
EXPOSE 3128/tcp 53/udp 53/tcp 443/tcp 80/tcp
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["/eclusa", "health"]
ENTRYPOINT ["/eclusa"]
CMD ["serve"]

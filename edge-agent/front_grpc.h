/* The gRPC front: docs/protocol-grpc.md. Its handlers are in front_rls.c, front_rlqs.c, grpc_health.c and grpc_reflection.c. */
#pragma once

#include "io/conn.h"

extern const struct front_ops front_grpc;

#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

// The services of tensors.proto, of f32 tensors, for the tests' server.
std::vector<std::unique_ptr<grpc::Service>> tensor_services();

// Trailing metadata of Double: how many tensors the server has copied so far.
inline constexpr const char* kTensorCopies = "x-tensor-copies";

#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

// A certificate for "localhost" that is its own authority, made anew by each run.
struct Certificate {
  std::string key;
  std::string chain;
};
Certificate make_certificate();
// One file with both.
void write_certificate(const Certificate& certificate, const std::string& path);
Certificate read_certificate(const std::string& path);

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Certificate& certificate);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Certificate& certificate);

// Preloaded before gRPC, makes it look like one that the plug-in does not know.
extern "C" const char* grpc_version_string() { return "99.0.0"; }

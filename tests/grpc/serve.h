#pragma once

// The server of these tests, a program of its own: prints its port, serves until its standard input
// ends, shuts down and leaves. An ordinary gRPC program; knows nothing of the plug-in.
int serve(int argc, char** argv);

inline constexpr const char* kRawMethod = "/ferry.test.Raw/Echo";  // bytes there and back

// oneDNN is compiled without the thread sanitizer, and waits by libgomp, which is too: what its
// threads hand to each other looks like a race.
#if defined(__SANITIZE_THREAD__)
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libdnnl.so\n"; }
#endif

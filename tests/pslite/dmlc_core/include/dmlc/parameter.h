// A stand-in for a file of dmlc-core that ps-lite has not: it includes its neighbours, and uses
// them.
#ifndef DMLC_PARAMETER_H_
#define DMLC_PARAMETER_H_

#include "./base.h"
#include "./logging.h"

namespace dmlc {

struct ParamError : public Error {
  explicit ParamError(const std::string& msg) : Error(msg) {}
};

struct Parameter {
  int DMLC_STR_CONCAT(val, ue) = 0;
  void Set(int to) {
    if (to < 0) throw ParamError("negative");
    CHECK_LT(to, 100) << "too large";
    value = to;
  }
};

}  // namespace dmlc

#endif  // DMLC_PARAMETER_H_

#include "tests/grpc/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <iterator>

namespace {

template <class Write>
std::string to_text(Write write) {
  BIO* memory = BIO_new(BIO_s_mem());
  write(memory);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(memory, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(memory);
  return text;
}

constexpr const char* kEndOfKey = "-----END PRIVATE KEY-----\n";

}  // namespace

Certificate make_certificate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* made = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_set_version(made, 2);
  X509_gmtime_adj(X509_getm_notBefore(made), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made), 86400);
  X509_set_pubkey(made, key);
  const auto* name = reinterpret_cast<const unsigned char*>("localhost");
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC, name, -1, -1, 0);
  X509_set_issuer_name(made, X509_get_subject_name(made));
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(made, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(made, key, EVP_sha256());
  Certificate result;
  result.key = to_text([&](BIO* out) {
    PEM_write_bio_PKCS8PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  result.chain = to_text([&](BIO* out) { PEM_write_bio_X509(out, made); });
  X509_free(made);
  EVP_PKEY_free(key);
  return result;
}

void write_certificate(const Certificate& certificate, const std::string& path) {
  std::ofstream(path) << certificate.key << certificate.chain;
}

Certificate read_certificate(const std::string& path) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto at = text.find(kEndOfKey) + std::string(kEndOfKey).size();
  return {text.substr(0, at), text.substr(at)};
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Certificate& certificate) {
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({certificate.key, certificate.chain});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Certificate& certificate) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = certificate.chain;
  return grpc::SslCredentials(options);
}

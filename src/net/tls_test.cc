// At stake: with a certificate, requests and streams are the same over TLS, and what is no TLS is
// turned away without harm.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <string>

#include "net/http_server.h"
#include "net/test_client.h"

namespace lineshaft::net {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using File = std::unique_ptr<FILE, Deleter<fclose>>;

// A self-signed certificate for localhost, written to the two files.
void write_certificate(const std::string& cert_file, const std::string& key_file) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate cert(X509_new());
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  ASSERT_GT(X509_sign(cert.get(), key.get(), EVP_sha256()), 0);
  const File cert_out(fopen(cert_file.c_str(), "w"));
  ASSERT_EQ(PEM_write_X509(cert_out.get(), cert.get()), 1);
  const File key_out(fopen(key_file.c_str(), "w"));
  ASSERT_EQ(PEM_write_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr),
            1);
}

// What comes back until the server closes.
std::string over_tls(const std::string& address, const std::string& request) {
  const std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  TestClient client(address);
  const std::unique_ptr<SSL, Deleter<SSL_free>> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), client.fd());
  if (SSL_connect(ssl.get()) != 1) return "no handshake";
  SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
  std::string out;
  char bytes[4096];
  for (int n = 0; (n = SSL_read(ssl.get(), bytes, sizeof(bytes))) > 0;) {
    out.append(bytes, static_cast<size_t>(n));
  }
  return out;
}

TEST(Tls, serves_requests_and_streams) {
  HttpConfig config;
  config.port = 0;
  config.tls_cert_file = testing::TempDir() + "lineshaft_tls_cert.pem";
  config.tls_key_file = testing::TempDir() + "lineshaft_tls_key.pem";
  write_certificate(config.tls_cert_file, config.tls_key_file);
  HttpServer server(config, [](HttpRequest&& request, std::shared_ptr<Responder> responder) {
    if (request.path == "/whole") return responder->send({200, {}, request.body});
    responder->begin_stream({200, {}, ""});
    for (int i = 0; i < 1000; ++i) responder->write("0123456789");
    responder->end();
  });
  const auto address = server.start();
  ASSERT_TRUE(address.ok()) << address.status();
  const std::string body(100'000, 'b');
  const std::string whole = over_tls(
      *address, fmt::format("POST /whole HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
                            "content-length: {}\r\n\r\n{}", body.size(), body));
  EXPECT_EQ(whole.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_TRUE(whole.ends_with("\r\n\r\n" + body));
  const std::string stream = over_tls(*address, "GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_EQ(stream.size() - stream.find("\r\n\r\n") - 4, 10'000u);
  TestClient plain(*address);
  plain.send("GET /whole HTTP/1.1\r\nhost: x\r\n\r\n");
  EXPECT_NE(plain.read_reply().status, 200);
  EXPECT_EQ(over_tls(*address, "GET /whole HTTP/1.0\r\n\r\n").substr(0, 12), "HTTP/1.1 200");
}

}  // namespace
}  // namespace lineshaft::net

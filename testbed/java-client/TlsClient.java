import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * A TLS client by JSSE. Arguments: host, port, server name or "", ALPN protocols as a comma list or "", file with the
 * authority to trust or "", number of bytes after which to close or -1 (when the server does). Sends what it reads
 * from stdin and prints as JSON what it saw.
 */
public final class TlsClient {
  private static final int READ_TIMEOUT_MS = 120_000;

  public static void main(String[] args) throws Exception {
    var host = args[0];
    var port = Integer.parseInt(args[1]);
    var serverName = args[2];
    var alpn = args[3];
    var answerBytes = Integer.parseInt(args[5]);
    var input = System.in.readAllBytes();

    var handshake = false;
    var version = "";
    var protocol = "";
    var error = "";
    var answer = new ByteArrayOutputStream();
    // A plain socket below: JSSE would otherwise send the host that was dialled as server name.
    try (var tcp = new Socket(host, port);
        var socket = (SSLSocket) context(args[4]).getSocketFactory().createSocket(tcp, null, port, true)) {
      socket.setSoTimeout(READ_TIMEOUT_MS);
      SSLParameters parameters = socket.getSSLParameters();
      parameters.setServerNames(serverName.isEmpty() ? List.of() : List.of(new SNIHostName(serverName)));
      if (!alpn.isEmpty()) parameters.setApplicationProtocols(alpn.split(","));
      socket.setSSLParameters(parameters);
      socket.startHandshake();
      handshake = true;
      version = socket.getSession().getProtocol();
      protocol = socket.getApplicationProtocol();
      socket.getOutputStream().write(input);
      socket.getOutputStream().flush();
      read(socket.getInputStream(), answer, answerBytes);
    } catch (java.io.IOException e) {
      error = e.toString();
    }
    System.out.printf(
        "{\"handshake\":%b,\"version\":\"%s\",\"alpn\":\"%s\",\"error\":\"%s\",\"answer\":\"%s\"}%n",
        handshake,
        version,
        protocol == null ? "" : protocol,
        error.replaceAll("[^ -!#-\\[\\]-~]", "?"),
        Base64.getEncoder().encodeToString(answer.toByteArray()));
  }

  private static void read(InputStream from, ByteArrayOutputStream into, int limit) throws java.io.IOException {
    var buffer = new byte[16384];
    while (limit < 0 || into.size() < limit) {
      var count = from.read(buffer);
      if (count < 0) return;
      into.write(buffer, 0, count);
    }
  }

  private static SSLContext context(String authority) throws Exception {
    TrustManager[] trust = {new TrustAnyone()};
    if (!authority.isEmpty()) {
      var store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      try (var file = Files.newInputStream(Path.of(authority))) {
        store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
      }
      var factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init(store);
      trust = factory.getTrustManagers();
    }
    var context = SSLContext.getInstance("TLS");
    context.init(null, trust, null);
    return context;
  }

  private static final class TrustAnyone extends X509ExtendedTrustManager {
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) {}

    public void checkClientTrusted(X509Certificate[] chain, String type, javax.net.ssl.SSLEngine engine) {}

    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) {}

    public void checkServerTrusted(X509Certificate[] chain, String type, javax.net.ssl.SSLEngine engine) {}

    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }
}

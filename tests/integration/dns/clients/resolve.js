// What Node's two resolvers say of each name: the C library's (lookup) and c-ares (resolve).
const dns = require("node:dns").promises;

async function told(question) {
  try {
    const found = await question;
    return found.map((entry) => entry.address ?? entry).join(" ");
  } catch (error) {
    return error.code;
  }
}

(async () => {
  for (const name of process.argv.slice(2)) {
    console.log(
      name,
      await told(dns.lookup(name, { all: true })),
      await told(dns.resolve4(name)),
      await told(dns.resolve6(name)),
      await told(dns.resolveSrv(name)),
    );
  }
})();

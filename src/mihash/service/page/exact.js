// JSON with whole numbers of 64 bits. A JavaScript number is exact up to 2^53; a larger one becomes a BigInt. In
// between it is a string that begins with NUL, which no stored string can contain.

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARK = "\u0000";

export function read(text) {
  const marked = text.replace(TOKENS, (token) =>
    /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"\\u0000${token}"` : token);
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value[0] === MARK ? BigInt(value.slice(1)) : value);
}

export function write(value) {
  return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? MARK + each : each))
    .replace(/"\\u0000(-?\d+)"/g, "$1");
}

// Digits as a number, as a BigInt where necessary, or as a string if they have more than 64 bits.
export function whole(digits) {
  const number = Number(digits);
  if (Number.isSafeInteger(number)) return number;
  const large = BigInt(digits);
  return BigInt.asIntN(64, large) === large ? large : digits;
}

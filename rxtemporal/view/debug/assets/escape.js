// Texts of others as they may be shown: what is invisible or turns the direction is spelt out.
const LONGEST = 200;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

function spell(character) {
  return "\\u{" + character.codePointAt(0).toString(16) + "}";
}

function show(value, limit = LONGEST) {
  const text = String(value);
  const cut = text.length > limit ? text.slice(0, limit) + "…" : text;
  return cut.replace(INVISIBLE, spell);
}

function plural(count, noun) {
  const ending = count === 1 ? "" : noun.endsWith("ch") ? "es" : "s";
  return `${count.toLocaleString("en")} ${noun}${ending}`;
}

// Text in the columns of a terminal: how many it takes, and cut to fit.

/** East Asian wide and fullwidth characters, and pictographs, take two columns. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
/** Marks that join the character before them, and characters without a glyph. */
const NO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u;
const ASCII = /^[\x20-\x7e]*$/;
const CUT = '…';

export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const char of text) width += charWidth(char);
  return width;
}

/** The text itself, or as much of it as fits with `…` at its end. Expects printable text. */
export function fitText(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  if (width <= 0) return '';
  let fitted = '';
  let left = width - 1;
  for (const char of text) {
    left -= charWidth(char);
    if (left < 0) break;
    fitted += char;
  }
  return fitted + CUT;
}

function charWidth(char: string): number {
  if (NO_WIDTH.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

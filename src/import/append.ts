// Adds many elements to a list. push(...many) passes them as arguments, and a hundred thousand do not fit on the stack.

export function append<Element>(list: Element[], many: Iterable<Element>): void {
  for (const one of many) list.push(one);
}

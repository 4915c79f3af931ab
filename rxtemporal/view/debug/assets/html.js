// Markup as values: preact's elements, written as templates by htm. Texts become text nodes only.
const { h, render } = preact;
const { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } = hooks;
const html = htm.bind(h);
